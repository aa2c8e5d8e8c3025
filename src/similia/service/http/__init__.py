"""HTTP: who may call what, and what is answered."""
