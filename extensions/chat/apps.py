from checkpoints.extension import Extension


class ChatConfig(Extension):
    name = "extensions.chat"
    workflows = ("extensions.chat.templates",)
