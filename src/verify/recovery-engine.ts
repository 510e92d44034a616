/** Interface of the libraries that recover public keys. All of them return the same results. */

export type RecoveryEngine = {
  readonly name: 'system secp256k1' | 'native secp256k1' | 'wasm secp256k1'
  /**
   * Returns the uncompressed public key, which has 65 bytes. Returns undefined if no key matches the signature. The
   * next call may overwrite the returned bytes.
   */
  readonly recoverKey: (
    digest: Uint8Array,
    compact: Uint8Array,
    recoveryId: 0 | 1,
  ) => Uint8Array | undefined
}
