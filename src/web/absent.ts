/** Replaces parts of the SDK that a page does not need when the page is bundled. */

const NO_KEYS = 'the page holds no private keys: choose a wallet'

export function accountOf(): never {
  throw new Error(NO_KEYS)
}

export function signHash(): never {
  throw new Error(NO_KEYS)
}

export function createClientChain(): never {
  throw new Error('the page speaks to the chain through the wallet only')
}
