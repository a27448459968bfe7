// Token, key and project come in, a line each; the claims go out as JSON, or why the token is refused.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"example.com/rowhouse-example/rowhouse"
)

func main() {
	var lines []string
	for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	claims, err := rowhouse.VerifyToken(lines[0], lines[1], lines[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		os.Exit(1)
	}
	text, _ := json.Marshal(claims)
	fmt.Println(string(text))
}
