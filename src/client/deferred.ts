/** A promise with its resolving functions. Node before 22 lacks `Promise.withResolvers`. */

export type Deferred<Value> = {
  readonly promise: Promise<Value>
  readonly resolve: (value: Value | PromiseLike<Value>) => void
  readonly reject: (reason: unknown) => void
}

export function makeDeferred<Value>(): Deferred<Value> {
  let end: Pick<Deferred<Value>, 'resolve' | 'reject'> | undefined
  const promise = new Promise<Value>((resolve, reject) => {
    end = { resolve, reject }
  })
  return { promise, ...end! }
}
