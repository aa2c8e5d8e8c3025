"""The other side of the service."""
