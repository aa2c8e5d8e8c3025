"""Items, and what searches them."""
