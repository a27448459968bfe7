package rowhouse

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Claims are what an access token says of its user.
type Claims struct {
	Subject   string `json:"sub"`
	Email     string `json:"email"`
	Role      string `json:"role"`
	Issuer    string `json:"iss"`
	IssuedAt  int64  `json:"iat"`
	ExpiresAt int64  `json:"exp"`
	SessionID string `json:"sid"`
}

// VerifyToken checks a user's access token with nothing but the project key. It cannot see whether the user has
// signed out meanwhile: the service does, wherever the token is used.
func VerifyToken(token, key, project string) (Claims, error) {
	var claims Claims
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims, errors.New("it has not three parts")
	}
	// The signature comes first, and always by HS256: nothing of a stranger's is parsed, nor chooses the algorithm.
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(parts[0] + "." + parts[1]))
	if !hmac.Equal([]byte(base64.RawURLEncoding.EncodeToString(mac.Sum(nil))), []byte(parts[2])) {
		return claims, errors.New("its signature is wrong")
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	if err := decode(parts[0], &header); err != nil || header.Algorithm != "HS256" {
		return claims, errors.New("its algorithm is not HS256")
	}
	if err := decode(parts[1], &claims); err != nil {
		return Claims{}, err
	}
	if claims.Issuer != "rowhouse-auth:"+project {
		return Claims{}, errors.New("it is of another project")
	}
	if claims.ExpiresAt <= time.Now().Unix() {
		return Claims{}, errors.New("it has expired")
	}
	return claims, nil
}

func decode(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
