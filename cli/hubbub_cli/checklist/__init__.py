"""Parts of `hubbub checklist`: questions, saved answers, figures, the dialogue and the written plan."""
