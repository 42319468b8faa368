from checkpoints.extension import Extension
from extensions.chat.words import WORDS


class ChatConfig(Extension):
    name = "extensions.chat"
    workflows = ("extensions.chat.templates",)
    words = WORDS
