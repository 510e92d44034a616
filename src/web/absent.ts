/** Stands in, where the page is bundled, for the parts of the SDK that are not for a page. */

export function privateKeyToAccount(): never {
  throw new Error('the page holds no private keys: choose a wallet')
}

export function createClientChain(): never {
  throw new Error('the page speaks to the chain through the wallet only')
}
