"""More than one machine: functions of pieces of a table run on a cluster of the hospital's own."""
