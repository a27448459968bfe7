// Verifies a user's access token with Go's standard library and nothing but the project key.
//
// Two lines come in: the token and the key. The claims go out as JSON; a token that is not good ends with status 1.
package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	token := lines.Text()
	lines.Scan()
	key := lines.Text()

	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		refuse("it has not three parts")
	}
	var header struct {
		Alg string `json:"alg"`
	}
	if json.Unmarshal(decode(parts[0]), &header) != nil || header.Alg != "HS256" {
		refuse("its algorithm is not HS256")
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(parts[0] + "." + parts[1]))
	if !hmac.Equal(mac.Sum(nil), decode(parts[2])) {
		refuse("its signature is wrong")
	}
	claims := decode(parts[1])
	var times struct {
		Exp int64 `json:"exp"`
	}
	if json.Unmarshal(claims, &times) != nil || times.Exp <= time.Now().Unix() {
		refuse("it has expired")
	}
	fmt.Println(string(claims))
}

func decode(part string) []byte {
	bytes, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		refuse("it is not base64url")
	}
	return bytes
}

func refuse(why string) {
	fmt.Fprintln(os.Stderr, "refused: "+why)
	os.Exit(1)
}
