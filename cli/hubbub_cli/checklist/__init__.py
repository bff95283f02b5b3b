"""The parts of `hubbub checklist`: questions, answers on file, figures, the dialogue and the written plan."""
