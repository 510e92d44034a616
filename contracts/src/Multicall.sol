// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Several calls in one transaction, with the `aggregate3` of Multicall3. Redemptions by permit
/// need nothing else: they are authorised by signatures, so it does not matter who calls.
///
/// It keeps nothing and must never be given an allowance or an approval: anybody can make it call
/// anything. Unlike Multicall3 it refuses ether, which nobody could get back.
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
