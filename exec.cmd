@rem "exec" for cmd.exe: npm start must end with its shell everywhere, and only Unix shells know the word.
@%*
