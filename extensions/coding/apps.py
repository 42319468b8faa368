from checkpoints.extension import Extension


class CodingConfig(Extension):
    name = "extensions.coding"
    workflows = ("extensions.coding.templates",)
