awk -F, '$3 == "paid" { sum += $2 } END { print sum }' orders.csv > total.txt
