"""The hospital's daemon: reads its own table, decides, privatises, charges its own budget, sends."""
