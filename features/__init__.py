"""Optional features: each folder contains all server code of one. Importing a feature imports no other one."""
