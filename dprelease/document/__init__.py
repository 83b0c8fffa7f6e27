"""Documents that tell people and programs something: facts, tables and notes, printed as text, JSON or HTML."""
