/** Chooses the trading account: a wallet of this browser, or a demo trader of the devnet. */

import type { RefObject } from 'preact'
import { shortAddress } from '../format.ts'
import { account, connectDemo, connectWallet, demoTraders, disconnect } from '../state/account.ts'
import { chain } from '../state/exchange.ts'
import { showError, showToast } from '../state/toasts.ts'
import { type Wallet, wallets } from '../wallet/provider.ts'

export function AccountDialog({
  dialog,
}: {
  readonly dialog: RefObject<HTMLDialogElement | null>
}) {
  const close = () => dialog.current?.close()
  const use = (wallet: Wallet) => {
    connectWallet(wallet).then(close, showError)
  }
  const hasNone = wallets.value.length === 0
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="account-title">
      <div class="dialog-head">
        <h2 id="account-title">{account.value === undefined ? 'Connect an account' : 'Account'}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={close}>
          ×
        </button>
      </div>
      <Current close={close} />
      <h3>Wallets</h3>
      {hasNone ? (
        <p class="quiet">
          No wallet was found in this browser. Install one, or open this page in the browser of a
          wallet.
        </p>
      ) : null}
      <ul class="choices">
        {wallets.value.map((wallet) => (
          <li key={wallet.id}>
            <button type="button" onClick={() => use(wallet)}>
              {wallet.icon === '' ? null : <img src={wallet.icon} alt="" width="20" height="20" />}
              {wallet.name}
            </button>
          </li>
        ))}
      </ul>
      {demoTraders.value.length === 0 ? null : (
        <>
          <h3>Demo traders</h3>
          <p class="quiet">
            These accounts have play money on the local chain {chain.value?.chainId}, and its node
            signs for them.{' '}
          </p>
          <ul class="choices two">
            {demoTraders.value.map((trader) => (
              <li key={trader.address}>
                <button
                  type="button"
                  aria-pressed={account.value?.address === trader.address}
                  onClick={() => void connectDemo(trader).then(close, showError)}
                >
                  <span>{trader.name}</span>
                  <span class="num quiet">{shortAddress(trader.address)}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </dialog>
  )
}

function Current({ close }: { readonly close: () => void }) {
  const chosen = account.value
  if (chosen === undefined) return null
  const copy = () => {
    navigator.clipboard
      .writeText(chosen.address)
      .then(() => showToast('done', 'The address was copied.'), showError)
  }
  const leave = () => {
    disconnect()
    close()
  }
  return (
    <div class="current">
      <div>{chosen.name}</div>
      <code>{chosen.address}</code>
      <div class="row">
        <button type="button" onClick={copy}>
          Copy address
        </button>
        <button type="button" onClick={leave}>
          Disconnect
        </button>
      </div>
    </div>
  )
}
