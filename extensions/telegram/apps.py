"""The app that switches the Telegram channel on."""

# the module, not its class: Django takes every app class in this namespace for an app of its own
from hitl.channels import extension


class TelegramConfig(extension.ChannelExtension):
    name = "extensions.telegram"
