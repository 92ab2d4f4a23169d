"""Problems for recurrent networks: generated ones and data sets, each with its loss, scores and chance level."""
