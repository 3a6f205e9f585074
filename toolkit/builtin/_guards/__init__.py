"""What several ready tools keep themselves within."""
