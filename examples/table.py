"""A table: find out what shifts, estimate the accuracy in a new hospital, and predict for it.

python examples/table.py
"""

import numpy as np
import pandas as pd

import shiftproof

rng = np.random.default_rng(0)


def patients(hospital: str, share_ill: float, age: float, count: int = 150) -> pd.DataFrame:
    """Return patients of one hospital; the proportion of ill ones and their age differ."""
    ill = (rng.random(count) < share_ill).astype(int)
    return pd.DataFrame(
        {
            "hospital": hospital,
            "age": rng.normal(age + 3 * ill, 8).round(),
            "pressure": rng.normal(120 + 15 * ill, 10).round(),
            "pain": np.where(rng.random(count) < 0.2 + 0.6 * ill, "chest", "none"),
            "ill": ill,
        }
    )


# One row per patient, with a label and a domain column.  A path of a CSV or Parquet file works too.
known = pd.concat(
    [patients("north", 0.4, 54), patients("east", 0.3, 48), patients("south", 0.7, 59)]
)
table = shiftproof.load(known, label="ill", domain="hospital")

# 1. What shifts between the hospitals, and what helps against it?
found = shiftproof.diagnose(table)
for finding in found.advice.findings:
    print(f"{finding.shift} shift: {finding.state}")
print("recommended:", found.advice.choice.algorithm)

# 2. How well does a model do in a hospital that it has not seen?  Hold out each one in turn.
settings = {"steps": 200, "hparams": {"batch_size": 16}}  # for speed; omit them for a real run
each = shiftproof.train_each(table, "erm", out="runs/table/each", **settings)
print(each.to_frame()[["accuracy", "commonest_class"]])

# 3. Write the results page, which needs no network.
found.save("runs/table/diagnosis.json")
print("page:", shiftproof.report("runs/table").save())

# 4. Train on all hospitals, and predict for a new one.
run = shiftproof.train(table, "erm", out="runs/table/final", **settings)
new = patients("island", 0.5, 52)
predictions = shiftproof.predict(run.model, new.drop(columns=["ill", "hospital"])).to_frame()
is_right = predictions["predicted"] == new["ill"].astype(str).to_numpy()
unlike = predictions["far"].sum()
print(f"new hospital: {is_right.mean():.0%} right, {unlike} patients unlike the others")
assert is_right.mean() > 0.7
