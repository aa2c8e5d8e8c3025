"""The client's side: requests, and judgements from files."""
