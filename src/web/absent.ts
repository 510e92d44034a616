/**
 * Replaces the SDK module that reads a chain without a wallet. The page does not need that module, so the bundler
 * inserts this one instead.
 */

export function createClientChain(): never {
  throw new Error('this page reads the chain only through the wallet')
}
