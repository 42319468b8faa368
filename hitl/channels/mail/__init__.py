"""Replies to mails, by webhook or out of a mailbox."""
