"""What is around a checkpoint.

surroundings.py  look everything up
landing.py       landing folders, compared with the logs of what was read
topics.py        what a Kafka cluster still has, and its ids
copies.py        checkpoints nearby with the same query id
"""
