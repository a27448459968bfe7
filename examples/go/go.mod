module example.com/rowhouse-example

go 1.19
