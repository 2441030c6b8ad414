"""Views of the small explorer, as its addresses."""

CELL = "#cell?table=p%2Ft1&row=Row+of+fedcorr&column=IID%2C+low"

BESIDE = f"{CELL}&table2=p%2Ft1&row2=Row+of+fedavg&column2=IID%2C+low"

VIEWS = ["#tables", "#claims", "#methods", "#runs", "#method?name=fedcorr", CELL, BESIDE]
