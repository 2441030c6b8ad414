"""Tables, figures and pages made from artifacts. Trains nothing."""
