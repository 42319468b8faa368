"""What a worker of this project begins beside Celery: body processes, and a look for work where the
broker takes no messages.
"""
