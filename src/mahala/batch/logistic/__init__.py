"""What LogisticMetric is made of: answers and their loss, its penalty, the space of its prior, minibatches."""
