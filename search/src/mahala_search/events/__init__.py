"""Events of searches, in the formats that teams have, and what they say of the results that were shown."""
