/**
 * Delegated keys: an account appoints keys that sign its orders within limits, and revokes them. The account signs each
 * change; the relayer sends the change to the chain and pays the gas.
 */

import type { Relayed } from '#protocol/shapes/relayer.ts'
import type { DelegateList } from '#protocol/shapes/users.ts'
import type { DelegationIntent, Relayer } from './relayer.ts'
import type { CallOptions, Transport } from './transport.ts'

/** A delegate of an account, with its limits. */
export type Delegate = DelegateList['delegates'][number]

export type ClientDelegates = {
  /** Appoints a key as a delegate of the signer's account, or changes the delegate's expiry and limits. */
  create(intent: DelegationIntent, options?: CallOptions): Promise<Relayed>
  /** Revokes a delegate's key: the exchange accepts no more orders of the key, and cancels the key's open orders. */
  revoke(delegate: string, options?: CallOptions): Promise<Relayed>
  /**
   * Returns the delegates of an account, by default the signer's. A revoked delegate is listed until its trades have
   * settled.
   */
  list(
    of?: { readonly address?: string; readonly chainId?: number },
    options?: CallOptions,
  ): Promise<readonly Delegate[]>
}

/**
 * Returns the user and the chain of a request. A missing user is the signer's address; a missing chain is the client's.
 */
export type UserOf = (
  of: { readonly address?: string | undefined; readonly chainId?: number | undefined },
  options: CallOptions | undefined,
) => Promise<{ readonly user: string; readonly chainId: number }>

export function createDelegates(ports: {
  readonly send: Transport
  readonly relayer: Pick<Relayer, 'setDelegate'>
  readonly userOf: UserOf
}): ClientDelegates {
  const { send, relayer } = ports
  return {
    create: (intent, call) => relayer.setDelegate(intent, call),
    revoke: (delegate, call) => relayer.setDelegate({ delegate, until: 0 }, call),
    async list(of = {}, call) {
      const { user, chainId } = await ports.userOf(of, call)
      const path = `/api/v1/users/${encodeURIComponent(user)}/delegates`
      const query = { chain_id: chainId }
      return (await send<DelegateList>({ method: 'GET', path, query }, call)).delegates
    },
  }
}
