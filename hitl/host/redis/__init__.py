"""How this project speaks to Redis: channels, and the cache that counts requests."""
