"""Replies to mails: by a gateway, and out of a mailbox."""
