"""Answers from where people are: replies to mails, buttons in Slack, words in Teams."""
