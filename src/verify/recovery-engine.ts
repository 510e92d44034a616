/** Interface of the libraries that recover public keys. All of them return the same results. */

export type RecoveryEngine = {
  readonly name: 'system secp256k1' | 'native secp256k1' | 'wasm secp256k1'
  /**
   * Returns the uncompressed public key (65 bytes), which is valid only until the next call. Returns undefined if no
   * key matches the signature.
   */
  readonly recoverKey: (
    digest: Uint8Array,
    compact: Uint8Array,
    recoveryId: 0 | 1,
  ) => Uint8Array | undefined
}
