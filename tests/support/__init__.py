"""What several test folders share: the fake Docker engine, and users of a hub without the hub."""
