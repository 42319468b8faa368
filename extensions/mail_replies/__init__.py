"""Replies to mails: each mail that asks one person has an address, and a reply to it answers."""
