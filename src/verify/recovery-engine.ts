/** What recovers public keys: one of several libraries, all with the same answers. */

export type RecoveryEngine = {
  readonly name: 'system secp256k1' | 'native secp256k1' | 'wasm secp256k1'
  /** The uncompressed public key (65 bytes, valid until the next call), or none that fits. */
  readonly recoverKey: (
    digest: Uint8Array,
    compact: Uint8Array,
    recoveryId: 0 | 1,
  ) => Uint8Array | undefined
}
