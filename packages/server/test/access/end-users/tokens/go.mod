module example.com/tokens

go 1.19

require example.com/rowhouse-example v0.0.0

replace example.com/rowhouse-example => ../../../../examples/go
