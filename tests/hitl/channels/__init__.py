"""Mail, chat and webhooks: planned, sent, refused."""
