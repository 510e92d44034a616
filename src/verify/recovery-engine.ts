/** The interface to a library that recovers public keys. There are several, with the same results. */

export type RecoveryEngine = {
  readonly name: 'system secp256k1' | 'native secp256k1' | 'wasm secp256k1'
  /** Returns the uncompressed public key (65 bytes, valid until the next call); undefined if none fits. */
  readonly recoverKey: (
    digest: Uint8Array,
    compact: Uint8Array,
    recoveryId: 0 | 1,
  ) => Uint8Array | undefined
}
