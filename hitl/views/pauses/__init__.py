"""The pages of questions: answers, contents, several at once, and links in mails."""
