from checkpoints.extension import Extension
from extensions.coding.words import WORDS


class CodingConfig(Extension):
    name = "extensions.coding"
    workflows = ("extensions.coding.templates",)
    words = WORDS
