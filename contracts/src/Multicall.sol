// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Makes several calls in one transaction, like `aggregate3` of Multicall3. Redemptions by permit can be batched with
/// it, because they need only signatures and any account may be the caller.
///
/// The contract holds nothing and must never get an allowance or an approval, because any account can make it call any
/// function. Unlike Multicall3 it rejects ether, because no account could withdraw it.
contract Multicall {
    struct Call3 {
        address target;
        bool allowFailure;
        bytes callData;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    function aggregate3(Call3[] calldata calls) external returns (Result[] memory returnData) {
        returnData = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; ++i) {
            (bool success, bytes memory data) = calls[i].target.call(calls[i].callData);
            require(success || calls[i].allowFailure, "Multicall3: call failed");
            returnData[i] = Result(success, data);
        }
    }
}
