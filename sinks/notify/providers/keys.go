package providers

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
)

// parseKey parses a private key: PKCS #8 or PKCS #1, in PEM.
func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errors.New("not a signing key")
	}
	return x509.ParsePKCS1PrivateKey(block.Bytes)
}

func isRSA(key crypto.Signer) bool {
	_, ok := key.(*rsa.PrivateKey)
	return ok
}
