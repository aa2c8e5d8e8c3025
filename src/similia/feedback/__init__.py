"""What people say: lists shown, clicks, triplets, pairs."""
