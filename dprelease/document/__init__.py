"""What the program tells people and programs: documents of facts, tables and notes, printed as text, JSON or HTML."""
