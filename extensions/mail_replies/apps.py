"""Switches the channel on."""

from hitl.channels import extension  # the module: Django takes each app class named here for one


class MailRepliesConfig(extension.ChannelExtension):
    name = "extensions.mail_replies"
