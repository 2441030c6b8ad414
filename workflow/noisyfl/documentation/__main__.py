"""Write the files generated from the declarations: ``python -m noisyfl.documentation``."""

from noisyfl.documentation.generated import generated

for path, text in generated().items():
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        print(path)
